-- Clicks in the shop, as the tracker sends them. One row per event_id.
CREATE TABLE bronze_clickstream_events (
    event_id BIGINT NOT NULL,
    user_id BIGINT,
    session_id TEXT,
    event_type TEXT,
    page_url TEXT,
    product_id BIGINT,
    referrer TEXT,
    device_type TEXT,
    geo_country TEXT,
    geo_region TEXT,
    event_timestamp TIMESTAMP NOT NULL,
    ingested_at TIMESTAMP NOT NULL,
    PRIMARY KEY (event_id)
);

-- Customers, as the account service has them. One row per customer_id.
CREATE TABLE bronze_customers (
    customer_id BIGINT NOT NULL,
    email TEXT,
    signup_date DATE,
    customer_tier TEXT,
    geo_country TEXT,
    geo_region TEXT,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (customer_id)
);

-- Movements of stock, as the warehouses book them. One row per inventory_event_id.
CREATE TABLE bronze_inventory_events (
    inventory_event_id BIGINT NOT NULL,
    product_id BIGINT NOT NULL,
    warehouse_id BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    quantity_change INT NOT NULL,
    event_timestamp TIMESTAMP NOT NULL,
    ingested_at TIMESTAMP NOT NULL,
    PRIMARY KEY (inventory_event_id)
);

-- Lines of orders, as the order service has them; a line may come hours after its order. One row per order_item_id.
CREATE TABLE bronze_order_items (
    order_item_id BIGINT NOT NULL,
    order_id BIGINT NOT NULL,
    product_id BIGINT NOT NULL,
    quantity INT NOT NULL,
    unit_price DECIMAL(10, 2) NOT NULL,
    discount_pct DECIMAL(5, 2),
    ingested_at TIMESTAMP NOT NULL,
    PRIMARY KEY (order_item_id)
);

-- Orders, as the order service has them. One row per order_id.
CREATE TABLE bronze_orders (
    order_id BIGINT NOT NULL,
    user_id BIGINT,
    order_status TEXT,
    order_total DECIMAL(12, 2),
    discount_amount DECIMAL(12, 2),
    shipping_cost DECIMAL(12, 2),
    payment_method TEXT,
    coupon_code TEXT,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    ingested_at TIMESTAMP NOT NULL,
    PRIMARY KEY (order_id)
);

-- Products, as the catalogue has them. One row per product_id.
CREATE TABLE bronze_products (
    product_id BIGINT NOT NULL,
    product_name TEXT NOT NULL,
    category TEXT,
    brand TEXT,
    supplier_id BIGINT,
    list_price DECIMAL(10, 2),
    cost_price DECIMAL(10, 2),
    weight_kg DECIMAL(6, 2),
    is_active BOOLEAN,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (product_id)
);

-- Suppliers, as purchasing has them. One row per supplier_id.
CREATE TABLE bronze_suppliers (
    supplier_id BIGINT NOT NULL,
    supplier_name TEXT NOT NULL,
    country TEXT,
    lead_time_days INT,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (supplier_id)
);

-- Clicks of known users in the five steps of the purchase funnel. One row per event_id.
CREATE MATERIALIZED VIEW silver_enriched_clickstream AS
SELECT
  event_id,
  user_id,
  session_id,
  event_type,
  page_url,
  product_id,
  device_type,
  geo_country,
  geo_region,
  event_timestamp
FROM bronze_clickstream_events
WHERE
  NOT user_id IS NULL
  AND event_type IN ('page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase');

-- Customers of the four known tiers. One row per customer_id.
CREATE MATERIALIZED VIEW silver_customers AS
SELECT
  customer_id,
  email,
  signup_date,
  customer_tier,
  geo_country,
  geo_region,
  updated_at
FROM bronze_customers
WHERE
  customer_tier IN ('standard', 'silver', 'gold', 'platinum');

-- The product catalogue for reporting, without costs. One row per product_id.
CREATE MATERIALIZED VIEW silver_products AS
SELECT
  product_id,
  product_name,
  category,
  brand,
  list_price
FROM bronze_products;

-- Stock and movements per product and warehouse. One row per product_id and warehouse_id.
CREATE MATERIALIZED VIEW silver_inventory_current AS
WITH stock AS (
  SELECT
    product_id,
    warehouse_id,
    SUM(CAST(quantity_change AS BIGINT)) AS current_stock,
    SUM(CAST(CASE WHEN event_type = 'restock' THEN quantity_change ELSE 0 END AS BIGINT)) AS total_restocked,
    SUM(
      CASE event_type
        WHEN 'sale_reserve'
        THEN ABS(CAST(quantity_change AS BIGINT))
        WHEN 'cancellation_restock'
        THEN -CAST(quantity_change AS BIGINT)
        ELSE 0
      END
    ) AS total_sold,
    SUM(
      CAST(CASE WHEN event_type = 'return_restock' THEN quantity_change ELSE 0 END AS BIGINT)
    ) AS total_returned
  FROM bronze_inventory_events
  GROUP BY
    product_id,
    warehouse_id
)
SELECT
  t.product_id,
  t.warehouse_id,
  p.product_name,
  p.category,
  p.brand,
  s.supplier_id,
  s.supplier_name,
  s.lead_time_days,
  t.current_stock,
  t.total_restocked,
  t.total_sold,
  t.total_returned
FROM stock AS t
INNER JOIN bronze_products AS p
  ON p.product_id = t.product_id
INNER JOIN bronze_suppliers AS s
  ON s.supplier_id = p.supplier_id;

-- Valid order lines of active products, with amounts and details of order, product and supplier.
CREATE MATERIALIZED VIEW silver_order_items_enriched AS
SELECT
  i.order_item_id,
  i.order_id,
  i.product_id,
  i.quantity,
  i.unit_price,
  i.discount_pct,
  i.quantity * i.unit_price AS line_gross_revenue,
  i.quantity * i.unit_price * (
    1 - COALESCE(i.discount_pct, 0.00) * 0.01
  ) AS line_net_revenue,
  i.quantity * (
    i.unit_price - p.cost_price
  ) AS line_gross_margin,
  p.product_name,
  p.category,
  p.brand,
  p.cost_price,
  p.list_price,
  s.supplier_id,
  s.supplier_name,
  s.country AS supplier_country,
  s.lead_time_days,
  o.created_at AS order_created_at,
  o.order_status,
  o.user_id,
  c.customer_tier
FROM bronze_order_items AS i
INNER JOIN bronze_orders AS o
  ON o.order_id = i.order_id
INNER JOIN silver_customers AS c
  ON c.customer_id = o.user_id
INNER JOIN bronze_products AS p
  ON p.product_id = i.product_id
INNER JOIN bronze_suppliers AS s
  ON s.supplier_id = p.supplier_id
WHERE
  i.quantity > 0
  AND i.unit_price >= 0
  AND o.order_status IN ('pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned')
  AND p.is_active;

-- Orders of known customers that have a valid status, total and item. One row per order_id.
CREATE MATERIALIZED VIEW silver_orders_enriched AS
WITH items AS (
  SELECT
    order_id,
    COUNT(*) AS item_count,
    SUM(CAST(quantity AS BIGINT)) AS total_quantity,
    SUM(quantity * unit_price) AS gross_item_revenue,
    CAST(SUM(discount_pct) AS DOUBLE) / NULLIF(COUNT(discount_pct), 0) AS avg_discount_pct
  FROM bronze_order_items
  WHERE
    quantity > 0 AND unit_price >= 0
  GROUP BY
    order_id
)
SELECT
  o.order_id,
  o.user_id,
  o.order_status,
  o.order_total,
  o.discount_amount,
  o.shipping_cost,
  o.payment_method,
  o.coupon_code,
  o.created_at,
  o.updated_at,
  c.customer_tier,
  c.geo_country AS customer_country,
  c.geo_region AS customer_region,
  c.signup_date,
  i.item_count,
  i.total_quantity,
  i.gross_item_revenue,
  i.avg_discount_pct
FROM bronze_orders AS o
INNER JOIN silver_customers AS c
  ON c.customer_id = o.user_id
INNER JOIN items AS i
  ON i.order_id = o.order_id
WHERE
  o.order_status IN ('pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned')
  AND o.order_total >= 0;

-- Stock and movements per supplier, over all its products and warehouses. One row per supplier_id.
CREATE MATERIALIZED VIEW silver_inventory_by_supplier AS
SELECT
  supplier_id,
  supplier_name,
  SUM(current_stock) AS total_current_stock,
  SUM(total_sold) AS total_sold,
  SUM(total_restocked) AS total_restocked,
  SUM(total_returned) AS total_returned
FROM silver_inventory_current
GROUP BY
  supplier_id,
  supplier_name;

-- The enriched order lines that count as sold: neither cancelled nor returned. One row per order_item_id.
CREATE MATERIALIZED VIEW silver_confirmed_order_items AS
SELECT
  order_item_id,
  order_id,
  product_id,
  quantity,
  unit_price,
  discount_pct,
  line_gross_revenue,
  line_net_revenue,
  line_gross_margin,
  product_name,
  category,
  brand,
  cost_price,
  list_price,
  supplier_id,
  supplier_name,
  supplier_country,
  lead_time_days,
  order_created_at,
  order_status,
  user_id,
  customer_tier
FROM silver_order_items_enriched
WHERE
  NOT order_status IN ('cancelled', 'returned');

-- Interest in each product on the last day of clicks, against its stock. One row per product_id.
CREATE MATERIALIZED VIEW gold_product_demand_surge AS
WITH recent AS (
  SELECT
    product_id,
    COUNT(*) FILTER(WHERE
      event_type = 'product_view') AS recent_views,
    COUNT(*) FILTER(WHERE
      event_type = 'add_to_cart') AS recent_add_to_carts,
    COUNT(*) FILTER(WHERE
      event_type = 'begin_checkout') AS recent_checkouts
  FROM silver_enriched_clickstream
  WHERE
    NOT product_id IS NULL
    AND event_timestamp > (
      SELECT
        MAX(event_timestamp)
      FROM silver_enriched_clickstream
    ) - INTERVAL '1' DAY
  GROUP BY
    product_id
), stock AS (
  SELECT
    product_id,
    SUM(current_stock) AS total_stock,
    MAX(lead_time_days) AS lead_time_days
  FROM silver_inventory_current
  GROUP BY
    product_id
), demand AS (
  SELECT
    r.product_id,
    r.recent_views,
    r.recent_add_to_carts,
    r.recent_checkouts,
    COALESCE(t.total_stock, 0) AS total_stock,
    t.lead_time_days,
    r.recent_add_to_carts * COALESCE(t.lead_time_days, 7) AS lead_time_carts
  FROM recent AS r
  LEFT JOIN stock AS t
    ON t.product_id = r.product_id
)
SELECT
  d.product_id,
  d.recent_views,
  d.recent_add_to_carts,
  d.recent_checkouts,
  p.product_name,
  p.category AS product_category,
  p.brand AS product_brand,
  d.total_stock AS total_stock_all_warehouses,
  d.lead_time_days,
  CAST(GREATEST(d.total_stock, 0) AS DOUBLE) / NULLIF(d.recent_add_to_carts, 0) AS days_of_stock_cover,
  CAST(d.recent_checkouts AS DOUBLE) / NULLIF(d.recent_views, 0) AS view_to_checkout_rate,
  CASE
    WHEN d.recent_add_to_carts = 0
    THEN 'OK'
    WHEN d.total_stock <= 0 OR d.total_stock < d.lead_time_carts
    THEN 'SURGE_STOCKOUT_RISK'
    WHEN d.total_stock < 2 * d.lead_time_carts
    THEN 'WARNING'
    ELSE 'OK'
  END AS demand_alert
FROM demand AS d
LEFT JOIN silver_products AS p
  ON p.product_id = d.product_id;

-- What cancelled orders cost by category and week, with running rates. One row per category and week_start.
CREATE MATERIALIZED VIEW gold_cancellation_impact AS
WITH orders AS (
  SELECT
    category,
    (
      TIMESTAMP_TRUNC(order_created_at - INTERVAL '1' DAY, WEEK) + INTERVAL '1' DAY
    ) AS week_start,
    order_id,
    order_status,
    SUM(line_net_revenue) AS net_revenue
  FROM silver_order_items_enriched
  GROUP BY
    category,
    (
      TIMESTAMP_TRUNC(order_created_at - INTERVAL '1' DAY, WEEK) + INTERVAL '1' DAY
    ),
    order_id,
    order_status
), weeks AS (
  SELECT
    category,
    week_start,
    COUNT(*) FILTER(WHERE
      order_status = 'cancelled') AS weekly_cancelled_orders,
    COUNT(*) AS weekly_total_orders,
    SUM(CASE WHEN order_status = 'cancelled' THEN net_revenue ELSE 0 END) AS weekly_cancelled_revenue,
    SUM(net_revenue) AS weekly_total_revenue
  FROM orders
  GROUP BY
    category,
    week_start
)
SELECT
  category,
  week_start,
  weekly_cancelled_orders,
  weekly_total_orders,
  weekly_cancelled_revenue,
  weekly_total_revenue,
  CAST(SUM(weekly_cancelled_orders) OVER so_far AS DOUBLE) / NULLIF(SUM(weekly_total_orders) OVER so_far, 0) AS cumulative_cancellation_rate,
  SUM(weekly_cancelled_revenue) OVER so_far AS cumulative_cancelled_revenue,
  CAST(SUM(weekly_cancelled_orders) OVER last_4_weeks AS DOUBLE) / NULLIF(SUM(weekly_total_orders) OVER last_4_weeks, 0) AS cancellation_rate_4wk
FROM weeks
WINDOW so_far AS (
  PARTITION BY category
  ORDER BY week_start
  RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
), last_4_weeks AS (
  PARTITION BY category
  ORDER BY week_start
  RANGE BETWEEN INTERVAL '21' DAY PRECEDING AND CURRENT ROW
);

-- Orders, revenue and customers by order status. One row per order_status.
CREATE MATERIALIZED VIEW gold_order_status_summary AS
WITH customers AS (
  SELECT
    order_status,
    user_id,
    COUNT(*) AS order_count,
    SUM(order_total) AS revenue,
    COUNT(order_total) AS total_count
  FROM silver_orders_enriched
  GROUP BY
    order_status,
    user_id
)
SELECT
  order_status,
  SUM(order_count) AS order_count,
  COALESCE(SUM(revenue), 0) AS total_revenue,
  CAST(SUM(revenue) AS DOUBLE) / NULLIF(SUM(total_count), 0) AS avg_order_value,
  COUNT(user_id) AS unique_customers
FROM customers
GROUP BY
  order_status;

-- How long the stock of each sold product lasts, against its supplier's lead time. One row per product_id.
CREATE MATERIALIZED VIEW gold_inventory_risk AS
WITH stock AS (
  SELECT
    product_id,
    product_name,
    category,
    brand,
    supplier_name,
    lead_time_days,
    SUM(current_stock) AS total_stock
  FROM silver_inventory_current
  GROUP BY
    product_id,
    product_name,
    category,
    brand,
    supplier_name,
    lead_time_days
), days AS (
  SELECT
    product_id,
    CAST(order_created_at AS DATE) AS day,
    SUM(CAST(quantity AS BIGINT)) AS units_sold,
    SUM(line_net_revenue) AS net_revenue,
    SUM(line_gross_margin) AS gross_margin
  FROM silver_confirmed_order_items
  GROUP BY
    product_id,
    CAST(order_created_at AS DATE)
), sales AS (
  SELECT
    product_id,
    SUM(units_sold) AS units_sold,
    COUNT(*) AS days_sold,
    SUM(net_revenue) AS net_revenue,
    SUM(gross_margin) AS gross_margin
  FROM days
  GROUP BY
    product_id
), cover AS (
  SELECT
    t.product_id,
    t.product_name,
    t.category,
    t.brand,
    t.supplier_name,
    t.lead_time_days,
    t.total_stock,
    s.units_sold,
    s.days_sold,
    s.net_revenue,
    s.gross_margin,
    CAST(t.total_stock AS DECIMAL(19, 0)) * s.days_sold AS stock_days,
    CAST(t.lead_time_days AS DECIMAL(10, 0)) * s.units_sold AS lead_units
  FROM stock AS t
  INNER JOIN sales AS s
    ON s.product_id = t.product_id
)
SELECT
  product_id,
  product_name,
  category,
  brand,
  supplier_name,
  lead_time_days,
  total_stock AS total_stock_all_warehouses,
  units_sold,
  CAST(units_sold AS DOUBLE) / days_sold AS avg_daily_units,
  CASE WHEN units_sold > 0 THEN CAST(stock_days AS DOUBLE) / units_sold END AS days_of_stock_remaining,
  CASE
    WHEN units_sold > 0 AND 2 * stock_days < 3 * lead_units
    THEN 'CRITICAL'
    WHEN units_sold > 0 AND stock_days < 3 * lead_units
    THEN 'WARNING'
    ELSE 'OK'
  END AS stock_risk_level,
  net_revenue,
  gross_margin
FROM cover;

-- Earnings and delivery of each supplier's products, beside its stock. One row per supplier_id.
CREATE MATERIALIZED VIEW gold_supplier_performance AS
WITH products AS (
  SELECT
    supplier_id,
    supplier_name,
    supplier_country,
    lead_time_days,
    product_id,
    COUNT(*) AS line_count,
    COUNT(*) FILTER(WHERE
      order_status = 'delivered') AS delivered_line_count,
    SUM(CAST(quantity AS BIGINT)) AS units_sold,
    SUM(line_net_revenue) AS net_revenue,
    SUM(line_gross_margin) AS gross_margin,
    SUM(discount_pct) AS discount_sum,
    COUNT(discount_pct) AS discount_count
  FROM silver_confirmed_order_items
  GROUP BY
    supplier_id,
    supplier_name,
    supplier_country,
    lead_time_days,
    product_id
), sales AS (
  SELECT
    supplier_id,
    supplier_name,
    supplier_country,
    lead_time_days,
    COUNT(*) AS products_sold,
    SUM(units_sold) AS total_units_sold,
    SUM(net_revenue) AS total_net_revenue,
    SUM(gross_margin) AS total_gross_margin,
    CAST(SUM(discount_sum) AS DOUBLE) / NULLIF(SUM(discount_count), 0) AS avg_discount_applied,
    CAST(SUM(delivered_line_count) AS DOUBLE) / SUM(line_count) AS reliability_score
  FROM products
  GROUP BY
    supplier_id,
    supplier_name,
    supplier_country,
    lead_time_days
), orders AS (
  SELECT
    supplier_id,
    COUNT(DISTINCT order_id) AS orders_fulfilled
  FROM silver_confirmed_order_items
  GROUP BY
    supplier_id
)
SELECT
  s.supplier_id,
  s.supplier_name,
  s.supplier_country,
  s.lead_time_days,
  s.products_sold,
  o.orders_fulfilled,
  s.total_units_sold,
  s.total_net_revenue,
  s.total_gross_margin,
  CAST(s.total_gross_margin AS DOUBLE) / CAST(NULLIF(s.total_net_revenue, 0) AS DOUBLE) AS avg_margin_pct,
  s.avg_discount_applied,
  s.reliability_score,
  i.total_current_stock,
  i.total_sold AS inventory_units_sold,
  i.total_restocked AS inventory_units_restocked,
  i.total_returned AS inventory_units_returned
FROM sales AS s
INNER JOIN orders AS o
  ON o.supplier_id = s.supplier_id
INNER JOIN silver_inventory_by_supplier AS i
  ON i.supplier_id = s.supplier_id;

-- Revenue by week and category, with change, moving averages and sum of the year. One row per week_start and category.
CREATE MATERIALIZED VIEW gold_weekly_revenue_trend AS
WITH weeks AS (
  SELECT
    (
      TIMESTAMP_TRUNC(order_created_at - INTERVAL '1' DAY, WEEK) + INTERVAL '1' DAY
    ) AS week_start,
    category,
    SUM(line_net_revenue) AS weekly_net_revenue,
    SUM(line_gross_margin) AS weekly_gross_margin,
    COUNT(DISTINCT order_id) AS order_count,
    SUM(CAST(quantity AS BIGINT)) AS units_sold
  FROM silver_confirmed_order_items
  GROUP BY
    (
      TIMESTAMP_TRUNC(order_created_at - INTERVAL '1' DAY, WEEK) + INTERVAL '1' DAY
    ),
    category
), weeks_with_previous AS (
  SELECT
    week_start,
    category,
    weekly_net_revenue,
    weekly_gross_margin,
    order_count,
    units_sold,
    LAG(weekly_net_revenue) OVER (PARTITION BY category ORDER BY week_start) AS previous_net_revenue
  FROM weeks
)
SELECT
  week_start,
  category,
  weekly_net_revenue,
  weekly_gross_margin,
  order_count,
  units_sold,
  weekly_net_revenue - previous_net_revenue AS revenue_wow_change,
  CAST(weekly_net_revenue - previous_net_revenue AS DOUBLE) / CAST(NULLIF(previous_net_revenue, 0) AS DOUBLE) AS revenue_wow_pct_change,
  CAST(SUM(weekly_net_revenue) OVER last_4_weeks AS DOUBLE) / COUNT(weekly_net_revenue) OVER last_4_weeks AS revenue_4wk_moving_avg,
  CAST(SUM(weekly_gross_margin) OVER last_4_weeks AS DOUBLE) / NULLIF(COUNT(weekly_gross_margin) OVER last_4_weeks, 0) AS margin_4wk_moving_avg,
  SUM(weekly_net_revenue) OVER year_to_date AS cumulative_ytd_revenue
FROM weeks_with_previous
WINDOW last_4_weeks AS (
  PARTITION BY category
  ORDER BY week_start
  RANGE BETWEEN INTERVAL '21' DAY PRECEDING AND CURRENT ROW
), year_to_date AS (
  PARTITION BY category, EXTRACT(YEAR FROM week_start)
  ORDER BY week_start
  RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
);

-- Products whose stock ends before a reorder can arrive (risk CRITICAL). One row per product_id.
CREATE MATERIALIZED VIEW gold_realtime_inventory_alerts AS
SELECT
  product_id,
  product_name,
  category,
  brand,
  supplier_name,
  lead_time_days,
  total_stock_all_warehouses,
  units_sold,
  avg_daily_units,
  days_of_stock_remaining,
  stock_risk_level,
  net_revenue,
  gross_margin
FROM gold_inventory_risk
WHERE
  stock_risk_level = 'CRITICAL';
