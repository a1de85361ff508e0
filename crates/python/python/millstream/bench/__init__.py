"""How fast messages pass between processes: `python -m millstream.bench`."""
