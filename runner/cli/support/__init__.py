"""What commands are made of, apart from their options.

Reading order:

- `output` (consoles and files), `counting` and `progress` (how far a command is);
- `options` and `characterize`: for `characterize`;
- `own_code` (code that a user gives), `analyzed` (for `analyze`), `sweep` (for `measure --sweep`).
"""
