"""The protocol: one file a request, `convert` alone makes lsprotocol objects, `server` knows them all."""
