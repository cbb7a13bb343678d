"""The collection that all tables belong to, and the type of their numbers."""

from typing import Final

from sqlalchemy import BigInteger, Integer, MetaData

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers its own rows only in a column of type INTEGER.
NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
