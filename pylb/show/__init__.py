"""A run as a page, as tables, as a timeline, as pictures and as a widget.

`course` has what a run was like, whatever holds it; everything else here shows a `Course`.
Nothing is imported here: `import pylb` leaves the pictures for when they are asked for.
"""
