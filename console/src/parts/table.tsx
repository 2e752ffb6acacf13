/** Tables: rows as they come from the node, page by page; never more in the document than somebody can look at. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";

export interface Column<Row> {
  title: string;
  show: (row: Row) => ComponentChildren;
  number?: boolean;
  narrow?: boolean;
}

const AT_ONCE = 200;

export function Table<Row>({ label, columns, rows, keyOf, detail, opened, onOpen }: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  detail?: (row: Row) => VNode;
  opened?: string | null;
  onOpen?: (key: string | null) => void;
}) {
  const shown = useSignal(AT_ONCE);
  const head = columns.map((column) => <th key={column.title} scope="col" class={classOf(column)}>{column.title}</th>);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {head}
            {detail && (
              <th>
                <span class="hidden">Details</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown.value).flatMap((row) => {
            const key = keyOf(row), open = opened === key;
            return [
              <tr key={key} class={open ? "opened" : "link"}>
                {columns.map((column) => <td key={column.title} class={classOf(column)}>{column.show(row)}</td>)}
                {detail && (
                  <td class="tight number">
                    <button
                      type="button"
                      class="tiny"
                      aria-expanded={open}
                      aria-label={`${open ? "Close" : "Open"} ${key}`}
                      onClick={() => onOpen?.(open ? null : key)}
                    >
                      {open ? "Close" : "Open"}
                    </button>
                  </td>
                )}
              </tr>,
              open && detail
                ? (
                  <tr key={`${key} detail`} class="detail">
                    <td colSpan={columns.length + 1}>{detail(row)}</td>
                  </tr>
                )
                : null,
            ];
          })}
        </tbody>
      </table>
      {rows.length > shown.value && (
        <p class="row more">
          <button type="button" onClick={() => (shown.value += AT_ONCE)}>Show more of {rows.length}</button>
        </p>
      )}
    </div>
  );
}

function classOf<Row>(column: Column<Row>): string {
  return `${column.number ? "number" : ""} ${column.narrow ? "hide-narrow" : ""}`.trim();
}
