"""Show a run as a page, tables, a timeline, pictures or a widget.

Input: a record, a trace, a replay or a balancer.  The module `course` makes a `Course` of it: the
loads, decisions and migrations over the iterations, which most other modules show.  Nothing is
imported here, so that `import pylb` remains fast.
"""
