"""Codes that know nothing of pylb: a module for each, which its user imports."""
