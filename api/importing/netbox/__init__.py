"""NetBox 4.x: racks, power panels, feeds and ports over its REST API."""
