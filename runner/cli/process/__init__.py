"""A command as a process.

Reading order:

- `start`: a command of a checkout, without the site's packages that would slow it down;
- `stop`: ending by a signal;
- `streams`: standard output and error under any locale and shell;
- `guard`: exit codes, and messages instead of tracebacks.
"""
