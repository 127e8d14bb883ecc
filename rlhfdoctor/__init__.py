"""Post-mortems of RLHF and preference-tuning runs."""

__version__ = "0.1.0"
