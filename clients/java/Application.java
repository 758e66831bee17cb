// An application on Hibernate: entities, relations, transactions, locks: Application mariadb | mysql. See ../README.md.
import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.LocalDateTime;
import java.util.*;
import java.util.function.Function;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

public class Application {
    @Entity(name = "Customer")
    @Table(name = "hib_customer")
    public static class Customer {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Column(length = 80, unique = true) String name;
        @Column LocalDateTime joined;
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL) @OrderBy("id") List<Order> orders = new ArrayList<>();
    }

    @Entity(name = "Orders")
    @Table(name = "hib_order")
    public static class Order {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @ManyToOne(fetch = FetchType.LAZY) Customer customer;
        @Column(precision = 10, scale = 2) BigDecimal total;
        @Column boolean paid;
        @Version int version;
    }

    static SessionFactory factory;

    static Object saved(Session session) {
        session.createMutationQuery("delete from Orders").executeUpdate();
        session.createMutationQuery("delete from Customer").executeUpdate();
        for (int n = 0; n < 3; n++) {
            Customer customer = new Customer();
            customer.name = "müller " + n + " \uD83D\uDE00";
            customer.joined = LocalDateTime.of(2024, 2, 29, 12, n);
            for (int k = 0; k < 3; k++) {
                Order order = new Order();
                order.customer = customer;
                order.total = new BigDecimal(n + "." + k + "5");
                customer.orders.add(order);
            }
            session.persist(customer);
        }
        return "ok";
    }

    static Object read(Session session) {
        List<String> told = new ArrayList<>();
        for (Customer one : session.createQuery("from Customer c left join fetch c.orders where c.name like '%1%'", Customer.class).list())
            told.add(one.name + one.joined + one.orders.stream().map(order -> order.total + " " + order.paid).toList());
        for (Object[] row : session.createQuery("select c.name, sum(o.total) from Orders o join o.customer c group by c.name order by c.name", Object[].class).list())
            told.add(Arrays.toString(row));
        return told;
    }

    static Object changed(Session session) {
        return session.createMutationQuery("update Orders o set o.paid = true where o.total > 1").executeUpdate() + " " + session.createQuery("select count(*) from Orders o where o.paid", Long.class).getSingleResult();
    }

    static Object twice(Session session) {
        Customer customer = new Customer();
        customer.name = "müller 1 \uD83D\uDE00";
        session.persist(customer);
        return "ok";
    }

    static Object written(Session session) {
        Order one = session.createQuery("from Orders o order by o.id", Order.class).setMaxResults(1).setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult();
        try { Thread.sleep(20); } catch (InterruptedException ended) { throw new IllegalStateException(ended); }
        one.total = one.total.add(BigDecimal.ONE);
        return one.total;
    }

    static String within(Function<Session, Object> work) {
        try {
            return String.valueOf(factory.fromTransaction(work::apply));
        } catch (PersistenceException error) {
            Throwable cause = error;
            while (cause.getCause() != null) cause = cause.getCause();
            return "error " + error.getClass().getSimpleName() + " " + cause.getMessage();
        }
    }

    static void told(String name, String outcome) {
        System.out.println(name + ": " + Clients.shown(outcome));
    }

    public static void main(String[] args) throws Exception {
        Clients.begin(args[0]);
        Configuration configuration = new Configuration().addAnnotatedClass(Customer.class).addAnnotatedClass(Order.class);
        configuration.setProperty("hibernate.connection.url", Clients.url(false));
        configuration.setProperty("hibernate.connection.username", Clients.given("USER"));
        configuration.setProperty("hibernate.connection.password", Clients.given("PASSWORD"));
        configuration.setProperty("hibernate.hbm2ddl.auto", "create");
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        long until = System.nanoTime() + (long) (Double.parseDouble(Clients.given("SECONDS")) * 1e9);
        try (var connection = Clients.connect(false); var statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS hib_order, hib_customer");
        }
        factory = configuration.buildSessionFactory();
        do {
            told("saved", within(Application::saved));
            told("read", within(Application::read));
            told("changed", within(Application::changed));
            told("twice", within(Application::twice));
            for (int n = 0; n < 20; n++) told("written " + n, within(Application::written));
        } while (System.nanoTime() < until);
        factory.close();
    }
}
