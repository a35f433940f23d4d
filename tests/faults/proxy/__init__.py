"""A proxy that breaks what passes through it, by a script. See proxy.py for its use by hand, rules for the script."""

from .rules import Fault, Rule, Script, ScriptError
from .server import Proxy

__all__ = ["Fault", "Proxy", "Rule", "Script", "ScriptError"]
