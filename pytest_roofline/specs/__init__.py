"""The library: what vendors, publishers and formats say about devices, models and numbers.

`document` reads one YAML file strictly, `folders` finds the files, `catalogue` finds one entry by what people call it,
`devices` knows cards and `slices` their MIG slices.
"""

from pytest_roofline.specs.catalogue import Catalogue, validate
from pytest_roofline.specs.devices import load_devices, match
from pytest_roofline.specs.folders import specs_folder
from pytest_roofline.specs.slices import mig_share

__all__ = ["Catalogue", "load_devices", "match", "mig_share", "specs_folder", "validate"]
