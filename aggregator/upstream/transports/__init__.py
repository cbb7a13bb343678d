"""One file per transport. To add one: write it, and add its line to `aggregator.upstream.connection.TRANSPORTS`."""
