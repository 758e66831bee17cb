"""An application on SQLAlchemy: models, relations, sessions, a pool that tests its connections: sqlalchemy_app.py DIALECT. See ../README.md."""
import decimal
import datetime
import sys
import time

import sqlalchemy as sa
import told
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "sa_customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(80), unique=True)
    joined: Mapped[datetime.datetime] = mapped_column(sa.DateTime)
    orders: Mapped[list["Order"]] = relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "sa_order"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("sa_customer.id"))
    total: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    note: Mapped[dict] = mapped_column(sa.JSON)
    customer: Mapped[Customer] = relationship(back_populates="orders")


def engine():
    arguments = {"ssl": {"ca": told.AUTHORITY}} if told.IS_TLS else {"ssl_disabled": True} if "pymysql" in sys.argv[1] else {}
    url = sa.URL.create(sys.argv[1], told.USER, told.PASSWORD, told.HOST, int(told.PORT), told.SCHEMA, {"charset": "utf8mb4"})
    return sa.create_engine(url, connect_args=arguments, pool_size=3, pool_pre_ping=True, pool_recycle=60)


class Application:
    def __init__(self):
        self.engine = engine()

    def tables(self):
        Base.metadata.drop_all(self.engine)
        Base.metadata.create_all(self.engine)
        inspector = sa.inspect(self.engine)
        return sorted(inspector.get_table_names()), [str(one["type"]) for one in inspector.get_columns("sa_order")]

    def saved(self):
        with Session(self.engine) as session:
            for n in range(5):
                orders = [Order(total=decimal.Decimal(f"{n}.{k}5"), note={"k": k, "é": None}) for k in range(3)]
                session.add(Customer(name=f"müller {n} 😀", joined=datetime.datetime(2024, 2, 29, 12, n), orders=orders))
            session.commit()
            return [customer.id for customer in session.scalars(sa.select(Customer).order_by(Customer.id))]

    def read(self):
        with Session(self.engine) as session:
            found = session.scalars(sa.select(Customer).options(selectinload(Customer.orders)).where(Customer.name.like("%1%")))
            sums = session.execute(sa.select(Customer.name, sa.func.sum(Order.total)).join(Order).group_by(Customer.name).order_by(Customer.name))
            return [(one.name, one.joined, [(order.total, order.note) for order in one.orders]) for one in found], [tuple(row) for row in sums]

    def undone(self):
        with Session(self.engine) as session:
            try:
                session.add(Customer(name="new", joined=datetime.datetime(2024, 1, 1)))
                session.flush()
                with session.begin_nested():
                    session.add(Customer(name="müller 1 😀", joined=datetime.datetime(2024, 1, 1)))
                    session.flush()
            except sa.exc.IntegrityError as error:
                session.rollback()
                return str(error.orig), session.scalar(sa.select(sa.func.count()).select_from(Customer))

    def many(self):
        with self.engine.begin() as connection:
            connection.execute(sa.insert(Order), [{"customer_id": 1, "total": n, "note": {"n": n}} for n in range(100)])
            deleted = connection.execute(sa.delete(Order).where(Order.total > 50)).rowcount
            locked = connection.execute(sa.select(Order.total).where(Order.customer_id == 1).order_by(Order.id).limit(3).with_for_update()).all()
            return deleted, list(map(tuple, locked))

    def streamed(self):
        with self.engine.connect().execution_options(stream_results=True, yield_per=7) as connection:
            return [tuple(row) for row in connection.execute(sa.select(Order.customer_id, Order.total).order_by(Order.id))]

    def serializable(self):
        with self.engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
            return connection.get_isolation_level(), connection.scalar(sa.select(sa.func.count()).select_from(Order))

    def written(self):
        for _ in range(20):
            with Session(self.engine) as session, session.begin():
                one = session.get(Customer, 1, with_for_update=True)
                one.orders[0].total += 1
                time.sleep(0.02)
        with Session(self.engine) as session:
            return session.get(Customer, 1).orders[0].total


def main():
    until = time.monotonic() + float(told.os.environ["CLIENT_SECONDS"])
    application = Application()
    while True:
        for case in ("tables", "saved", "read", "undone", "many", "streamed", "serializable", "written"):
            try:
                outcome = getattr(application, case)()
            except sa.exc.SQLAlchemyError as error:
                outcome = f"{type(error).__name__} {getattr(error, 'orig', error)}"
            told.told(case, [told.shown(outcome)])
        if time.monotonic() >= until:
            break
    application.engine.dispose()


main()
