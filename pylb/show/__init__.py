"""Room show: a run as a page, as tables, as a timeline, as a widget.

`course` has what a run was like, whatever holds it; everything else here shows a `Course`.
"""
