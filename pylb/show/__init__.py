"""Show a run as a page, tables, a timeline, pictures or a widget.

In: a record, a trace, a replay or a balancer; `course` makes a `Course` of each, and everything
else here shows a `Course`.  Nothing is imported here, so that `import pylb` remains fast.
"""
