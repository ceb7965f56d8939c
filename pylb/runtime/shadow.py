"""temporary"""
class Shadow:
    pass
