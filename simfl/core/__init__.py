"""What all of simfl stands on: values, errors, random streams, columns; registration, storage, HTTP."""
