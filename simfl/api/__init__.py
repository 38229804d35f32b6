"""simfl from Python: functions, result objects, and the index of a results folder."""
