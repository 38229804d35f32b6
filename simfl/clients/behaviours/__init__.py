"""Client agents besides the standard one."""
