"""The only place that knows torch and transformers: recompute what a run no longer tells."""
