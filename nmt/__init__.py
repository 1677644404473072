"""Everything about the experiment that would still make sense without Prefect."""
