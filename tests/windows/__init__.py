"""The package as on Windows, as far as Linux can act it out; what Windows itself does is not tried here."""
