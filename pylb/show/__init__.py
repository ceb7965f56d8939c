"""Show a run as a page, tables, a timeline, pictures or a widget.

In: a record, a trace, a replay or a balancer.  The module `course` turns each of them into a
`Course`: the loads, decisions and migrations over the iterations.  Most other modules show
a `Course`.  Nothing is imported here, so that `import pylb` remains fast.
"""
