"""An application on Django: a schema made by its migrations' editor, models, transactions, locks, with connections that are kept. See ../README.md."""
import datetime
import decimal
import pathlib
import time

import django
import told
from django.apps import AppConfig
from django.conf import settings


class Shop(AppConfig):
    """This file as an application."""

    name, label, path = "__main__", "shop", str(pathlib.Path(__file__).parent)


settings.configure(
    INSTALLED_APPS=["__main__.Shop"],
    USE_TZ=False,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            "HOST": told.HOST,
            "PORT": told.PORT,
            "USER": told.USER,
            "PASSWORD": told.PASSWORD,
            "NAME": told.SCHEMA,
            "CONN_MAX_AGE": None,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"charset": "utf8mb4", **({"ssl": {"ca": told.AUTHORITY}} if told.IS_TLS else {})},
        }
    },
)
django.setup()

from django.db import Error, IntegrityError, connection, models, transaction  # noqa: E402  (after the settings)


class Author(models.Model):
    name = models.CharField(max_length=80, unique=True)
    born = models.DateTimeField()

    class Meta:
        app_label = "shop"


class Book(models.Model):
    author = models.ForeignKey(Author, models.CASCADE)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    about = models.JSONField(default=dict)
    cover = models.BinaryField(null=True)
    minutes = models.DurationField(null=True)

    class Meta:
        app_label = "shop"


def tables():
    with connection.cursor() as cursor:
        for table in ("shop_book", "shop_author"):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
    with connection.schema_editor() as editor:
        editor.create_model(Author)
        editor.create_model(Book)
    return [one for one in connection.introspection.table_names() if one.startswith("shop_")], connection.mysql_is_mariadb, connection.mysql_version


def saved():
    for n in range(5):
        author = Author.objects.create(name=f"müller {n} 😀", born=datetime.datetime(2024, 2, 29, 12, n, 1, 250000))
        Book.objects.bulk_create([Book(author=author, price=decimal.Decimal(f"{n}.{k}5"), about={"k": k, "é": None}, cover=bytes([0, 255, k]), minutes=datetime.timedelta(minutes=k)) for k in range(3)])
    return list(Author.objects.order_by("id").values_list("id", "name", "born"))


def read():
    books = Book.objects.select_related("author").filter(author__name__contains="1").order_by("id")
    sums = Author.objects.annotate(sum=models.Sum("book__price"), count=models.Count("book")).order_by("name").values_list("name", "sum", "count")
    return [(one.author.name, one.price, one.about, bytes(one.cover), one.minutes) for one in books], list(sums), Book.objects.filter(about__k=2).count()


def undone():
    try:
        with transaction.atomic():
            Author.objects.create(name="new", born=datetime.datetime(2024, 1, 1))
            with transaction.atomic():
                Author.objects.create(name="müller 1 😀", born=datetime.datetime(2024, 1, 1))
    except IntegrityError as error:
        return error.args, Author.objects.count()


def got_or_created():
    one, is_new = Author.objects.get_or_create(name="einer", defaults={"born": datetime.datetime(2024, 1, 1)})
    two, is_changed = Author.objects.update_or_create(name="einer", defaults={"born": datetime.datetime(2024, 1, 2)})
    return is_new, is_changed, one.id == two.id, two.delete()


def iterated():
    return [(one.author_id, one.price) for one in Book.objects.order_by("id").iterator(chunk_size=2)]


def written():
    for _ in range(20):
        with transaction.atomic():
            one = Book.objects.select_for_update().order_by("id").first()
            one.price = models.F("price") + 1
            one.save(update_fields=["price"])
            time.sleep(0.02)
    return Book.objects.order_by("id").first().price


def main():
    until = time.monotonic() + float(told.os.environ["CLIENT_SECONDS"])
    while True:
        for case in (tables, saved, read, undone, got_or_created, iterated, written):
            try:
                outcome = case()
            except Error as error:
                outcome = f"{type(error).__name__} {error.args}"
            told.told(case.__name__, [told.shown(outcome)])
        if time.monotonic() >= until:
            break
    connection.close()


main()
