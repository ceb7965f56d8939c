"""Show a run as a page, tables, a timeline, pictures or a widget.

In: a record, a trace, a replay or a balancer; `course` turns each of them into a `Course`, and all
other modules show a `Course`.  Nothing is imported here, so that `import pylb` remains fast.
"""
