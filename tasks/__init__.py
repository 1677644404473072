"""One thin Prefect task per stage: settings and inputs in, a manifest out."""
