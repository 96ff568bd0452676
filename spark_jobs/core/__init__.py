"""The engine room: tables and their graph, settings, session, store, events, steps, commands."""
