"""The report: eleven answers with their evidence, the plots, and a page that shows them."""
