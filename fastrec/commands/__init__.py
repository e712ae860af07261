"""Commands besides `normalize`: one module or folder each. They do not import each other."""
