"""Static pages of a database: a table of everything, a page per variant and architecture, comparisons.

Reading order:

- `build` writes the site;
- `views` (the data of a page), `attributes` (names of attributes), `pages` (renders views);
- `lists` (plain lists of all pages), `tables` (data of the big table), `experiments` (evidence of the numbers);
- `memory` is the page about store forwarding.
"""
