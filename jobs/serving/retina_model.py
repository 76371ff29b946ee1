"""The class that model-settings.json names, in a module of its own: MLServer executes it again for
every model."""
from retina_service import RetinaService as RetinaModel

__all__ = ["RetinaModel"]
