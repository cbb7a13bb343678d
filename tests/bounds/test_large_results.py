"""Messages of very many values, and results that together take too much: refused, told, and nobody else's matter."""
