"""Errors that answer a request."""

from pygls.exceptions import JsonRpcInvalidParams


class BadRequest(JsonRpcInvalidParams):
    """The client asked for something that cannot be."""

    def __init__(self, message: str):
        super().__init__(message=message)
