"""tests controllers reconcile."""
