"""The exception of the package."""


class Error(Exception):
    """Raised for every failure. `what` is the problem and `remedy` its solution; str() has both."""

    def __init__(self, what, remedy=""):
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self):
        return f"{self.what}. {self.remedy}" if self.remedy else str(self.what)
