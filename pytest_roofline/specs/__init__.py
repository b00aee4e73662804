"""The library: what vendors, publishers and formats say about devices, models and numbers.

`document` reads one YAML file strictly, `folders` finds the files, `devices` knows cards.
"""

from pytest_roofline.specs.devices import load_devices, match
from pytest_roofline.specs.folders import specs_folder

__all__ = ["load_devices", "match", "specs_folder"]
