//! Plans and actions: the schema of a stored recipe of commands. Pure: no clock, no I/O.
