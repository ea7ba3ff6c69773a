"""Worked examples, from files to report; docs/ tells their stories."""
