"""(written with its first module)"""
