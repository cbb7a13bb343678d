"""What the upstreams offer, vetted and named, as frozen snapshots."""
