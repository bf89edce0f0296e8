"""The catalog of the rules, for this package; see ``amplint.catalog``."""

from amplint.catalog import SYNTAX_ERROR, Row, catalog, rule_names

__all__ = ["SYNTAX_ERROR", "Row", "catalog", "rule_names"]
