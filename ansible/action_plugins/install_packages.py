"""Runs the module install_packages on a node, and checks its result as the action converge does."""

from ansible.plugins.loader import action_loader

ActionModule = action_loader.get("converge", class_only=True)
