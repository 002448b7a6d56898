"""Parts of commands.

Reading order:

- `output` (consoles and files), `counting` and `progress` (progress of a command);
- `options` and `characterize`: for `characterize`;
- `own_code` (code of a user), `blocks` (tables of blocks), `analyzed` (for `analyze`), `sweep` (for `measure --sweep`),
  `mixes` (for `ports`).
"""
