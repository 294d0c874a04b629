"""How clients get to know of bundles: manifests, lists, capabilities."""
