"""The language server: what amplint finds, in an editor while somebody types. The only room that knows pygls."""
