"""Trees: as dense arrays, grown at one party or over several."""
