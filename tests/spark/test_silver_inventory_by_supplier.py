"""silver_inventory_by_supplier: one supplier's stock, all products and warehouses together."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_products_and_warehouses_of_a_supplier_add_up_and_negative_stock_takes_off(run: "Run") -> None:
    moved = {"total_sold": 3, "total_restocked": 20, "total_returned": 1}
    run(
        "silver_inventory_by_supplier",
        silver_inventory_current=[
            {"product_id": 1, "warehouse_id": 1, "current_stock": 10, **moved},
            {"product_id": 1, "warehouse_id": 2, "current_stock": -4, **moved},
            {"product_id": 2, "warehouse_id": 1, "current_stock": 5, **moved},
        ],
    ).gives(
        "supplier_id, supplier_name, total_current_stock, total_sold, total_restocked, total_returned",
        (1, "Acme", 11, 9, 60, 3),
    )


def test_suppliers_of_one_name_stay_apart(run: "Run") -> None:
    run(
        "silver_inventory_by_supplier",
        silver_inventory_current=[{"supplier_id": 1, "current_stock": 1}, {"supplier_id": 2, "current_stock": 2}],
    ).gives("supplier_id, supplier_name, total_current_stock", (1, "Acme", 1), (2, "Acme", 2))
