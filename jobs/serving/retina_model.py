"""What model-settings.json names. A module of its own: MLServer executes it again for every model."""
from retina_service import RetinaService as RetinaModel

__all__ = ["RetinaModel"]
