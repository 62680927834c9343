"""What counts as done: a tool that acts, and a result that does not deny it."""

import json
from typing import Any

import pytest

from nbchat.compaction.facts.read_calls import judged, read_calls
from nbchat.compaction.facts.tool_names import acts
from nbchat.conversation.entries import FAILED, Entry

pytestmark = pytest.mark.usefixtures("garbage_kept")


def called(tool: str, answer: object, *, failed: bool = False, **arguments: object):
    content = answer if isinstance(answer, str) else json.dumps(answer)
    call = Entry("assistant", "", "1", tool, json.dumps(arguments))
    flag = FAILED if failed else ""
    (found,) = read_calls([call, Entry("tool", content, "1", tool, flag)])
    return found


def status(tool: str, answer: object, **options: Any) -> str:
    return called(tool, answer, **options).status


def called_as_action(tool: str, answer: object, asked: dict[str, Any]) -> str:
    content = answer if isinstance(answer, str) else json.dumps(answer)
    call = Entry("assistant", "", "1", tool, json.dumps(asked))
    result = Entry("tool", content, "1", tool)
    (found,) = read_calls([call, result])
    return judged(found, result, is_action=True).status


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 3\nKeyError: 1'


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "error": "permission denied"},
        {"ok": False},
        {"ok": 0},
        {"status": "failed"},
        {"result": "FAILURE"},
        {"code": 403, "message": "forbidden"},
        {"status": 409, "title": "Conflict"},
        {"response": {"statusCode": 422, "body": {}}},
        {"error": {"code": "E12"}},
        {"data": None, "errors": [{"message": "no"}]},
        {"data": {"orderCancel": {"order": None, "userErrors": [{"field": "id"}]}}},
        {"error_code": "SHIPPED"},
        {"result": {"success": False}},
        {"results": [{"id": "W2", "status": "failed"}]},
        [{"id": "W2", "error": "locked"}],
        {"cancelled": False},
        {"accepted": False},
        {"type": "error", "detail": "shipped"},
        {"exit_code": 1},
        {"returncode": -9, "stdout": ""},
        TRACEBACK,
        "step 1 of 2 completed\nProcess exited with status 127",
        "503 Service Unavailable",
        "Sold out",
        "No seats left.",
        "W2 could not be cancelled: already shipped",
        "Error: no such order",
        "<error>no such order</error>",
        "No se pudo cancelar el pedido",
        "Acceso denegado",
        "Die Bestellung konnte nicht storniert werden",
        "Commande introuvable",
        "Pedido não encontrado",
        "无法取消订单",
        "订单不存在",
        "注文が見つかりません",
        "주문을 찾을 수 없습니다",
        "Заказ не найден",
        "لم يتم إلغاء الطلب",
        "अनुमति अस्वीकृत",
    ],
)
def test_an_action_that_its_result_denies_failed(answer: object):
    assert status("cancel_order", answer, order_id="W2") == "failed"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"accepted": True, "state": "QUEUED"}, "state: QUEUED, accepted: true"),
        ({"a": 1, "id": 7, "state": "requires_otp"}, "id: 7, state: requires_otp"),
        ({"status": "pending", "job": "J1"}, "status: pending"),
        ({"requires_confirmation": True}, "requires_confirmation: true"),
        ({"dry_run": True, "rows": 120}, "dry_run: true"),
        ({"mode": "dry-run", "rows": 120}, "mode: dry-run"),
        ({"cancelled": 0}, "cancelled: 0"),
        ({"matchedCount": 1, "modifiedCount": 0}, "modifiedCount: 0"),
        ({"succeeded": 2, "failed": 1}, "failed: 1"),
        ({"cancelled": ["W1"], "errors": [{"id": "W2"}]}, "errors.id: W2"),
        (
            [{"id": "W1", "status": "ok"}, {"id": "W2", "ok": False}],
            "id: W2, ok: false",
        ),
        ({"results": [{"id": 1}, {"id": 2, "error": "a, b"}]}, 'id: 2, error: "a, b"'),
        ({"message": "Nothing was changed"}, "Nothing was changed"),
        ("would delete 120 rows", "would delete 120 rows"),
        ("0 rows affected", "0 rows affected"),
        ("Queued as job 17", "Queued as job 17"),
        ("Please confirm: cancel it?", "Please confirm: cancel it?"),
        ("false", "false"),
        ("null", "null"),
        ("Auftrag angenommen", "Auftrag angenommen"),
    ],
)
def test_results_that_neither_confirm_nor_deny_an_action_are_listed(
    answer: object, told: str
):
    found = called("cancel_order", answer, order_id="W9")
    assert found.status == "unconfirmed"
    assert found.words.startswith(told)


@pytest.mark.parametrize(
    "answer",
    [
        {"success": True, "errors": []},
        {"code": 0, "msg": "success"},
        {"order_id": "W2", "status": "cancelled", "escalated": False, "retries": 0},
        {"error": None, "status": "ok"},
        {"id": "r1", "failure_reason": None, "status": "succeeded"},
        "W2: cancelled",
        "Cancelled. No errors.",
        "Process finished with exit code 0",
        "1 row affected",
        "ok",
        "",
        "Die Bestellung wurde storniert.",
        "Le remboursement a été effectué.",
        "订单已取消",
        "注文をキャンセルしました",
        "تم إلغاء الطلب",
    ],
)
def test_an_action_that_its_result_confirms_is_done(answer: object):
    assert status("cancel_order", answer, order_id="W2") == "done"


def test_words_and_states_that_were_asked_for_deny_nothing():
    title = "Login fails with error 500"
    assert status("create_issue", f"Created #12: {title}", title=title) == "done"
    rejected = {"id": "A1", "status": "rejected"}
    assert status("reject_application", rejected, id="A1") == "done"
    assert status("set_status", rejected, id="A1", status="rejected") == "done"
    assert status("approve_application", rejected, id="A1") == "failed"


@pytest.mark.parametrize(
    "trial",
    [{"dry_run": True}, {"dryRun": "true"}, {"mode": "preview"}, {"commit": False}],
)
def test_a_dry_run_is_not_done(trial: dict[str, object]):
    assert (
        status("delete_rows", "deleted 120 rows", table="t", **trial) == "unconfirmed"
    )


def test_a_record_in_a_bad_state_was_found_and_an_error_alone_was_not():
    assert status("get_payment", {"id": "pay_1", "status": "failed"}) == "called"
    assert status("get_job", {"id": "j1", "error": "disk full"}) == "called"
    assert status("get_job", {"error": "no such job"}, id="j1") == "failed"
    assert status("get_job", {"message": "Not Found", "status": "404"}) == "failed"
    assert status("bash", {"exit_code": 2, "stdout": ""}, command="ls x") == "failed"


def test_an_exception_is_a_failure():
    assert status("cancel_order", "error: timeout", failed=True) == "failed"


@pytest.mark.parametrize(
    ("tool", "does"),
    [
        ("cancel_order", True),
        ("cancelOrder", True),
        ("github__create_issue", True),
        ("order_pizza", True),
        ("order_details", False),
        ("get_order", False),
        ("run_tests", False),
        ("web_search", False),
        ("bash", False),
        ("sql", False),
        ("weather", False),
        ("open_file", True),
        ("user_delete", True),
        ("slack_send_message", True),
        ("bulk_update_rows", True),
        ("process_refund", True),
        ("orders.cancel", True),
        ("close_ticket", True),
        ("store_hours", False),
        ("open_positions", False),
        ("update_prices", True),
        ("update_status", True),
        ("close_issues", True),
        ("release_notes", False),
        ("place_search", False),
        ("refundStatus", False),
        ("schedule_lookup", False),
        ("can_cancel", False),
        ("preview_delete", False),
        ("str_replace_editor", False),
    ],
)
def test_the_verb_in_a_tools_name_says_whether_it_acts(tool: str, *, does: bool):
    assert acts(tool) is does


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"result": "Error: order 5 could not be cancelled"}, "failed"),
        (["Error: order 5 could not be cancelled"], "failed"),
        ({"result": "Cancelled order 5"}, "done"),
        ({"result": "CNF-2291"}, "done"),
    ],
)
def test_words_inside_of_json_count_as_words(answer: object, status: str):
    assert called("cancel_order", json.dumps(answer), order="5").status == status


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("book_table", {"reservation": None, "reason": "fully booked"}),
        ("send_email", {"id": 1, "to": 2, "from": 3, "body": 4, "status": "queued"}),
        ("book_room", {"status": "pending_payment", "booking_id": "B1"}),
        ("deploy_service", "Build step 3/5 errored, rollback started"),
        ("deploy_service", {"phase": "rolling_back", "revision": 4}),
        ("update_record", {"matched": 1, "modified": 0}),
        ("create_ticket", "Duplicate of T-11, not created."),
        ("add_member", {"message": "You do not have permission"}),
        ("assign_ticket", {"ticket": {"id": 4}, "warnings": ["agent is away"]}),
        ("restart_server", {"operation": "op-1", "done": False}),
        ("stop_instance", {"code": "IncorrectInstanceState"}),
        ("notify_team", {"delivered_to": [], "failed_to": ["a", "b"]}),
        ("update_address", "Address change saved as draft; confirm to apply."),
        ("close_ticket", {"ticket": {"id": "T1", "status": "open"}}),
        ("transition_issue", {"errorMessages": ["Subtasks are open"], "errors": {}}),
        ("cancel_order", "Die Kündigung wurde vorgemerkt und wird geprüft."),
        ("cancel_order", "L'annulation est en attente de validation"),
        ("cancel_order", "取消请求已提交,等待审核"),
        ("cancel_order", "キャンセル申請を受け付けました。審査中です。"),
        ("cancel_order", "تم استلام طلب الإلغاء وهو قيد المراجعة"),
        ("cancel_order", "Заявка принята и ожидает проверки"),
    ],
)
def test_what_waits_or_came_to_nothing_is_not_done(tool: str, answer: object):
    assert status(tool, answer) in ("failed", "unconfirmed")


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("write_file", "File written: a.txt"),
        ("change_address", {"id": "W2", "status": "pending", "a": 1, "b": 2, "c": 3}),
        ("modify_items", {"order_id": "W2", "status": "pending (item modified)"}),
        ("cancel_order", "L'ordine è stato annullato"),
        ("rollback_release", {"status": "rolled_back"}),
        ("close_ticket", {"ticket": {"id": "T1", "status": "closed"}}),
        ("upsert_rows", {"created": 0, "updated": 3}),
        ("add_member", {"ok": True, "warning": "deprecated"}),
        ("aws_ec2_terminate_instances", {"TerminatingInstances": [{"id": "i-1"}]}),
        ("capture_payment", {"id": "p", "status": "succeeded"}),
    ],
)
def test_what_succeeded_is_done_in_whatever_form(tool: str, answer: object):
    assert status(tool, answer) == "done"


@pytest.mark.parametrize(
    ("tool", "asked", "answer"),
    [
        ("set_volume", {"level": 30}, {"volume": 55}),
        ("update_address", {"city": "Bath"}, {"success": True, "city": "York"}),
        ("update_user", {"role": "admin"}, {"id": 7, "role": "member", "v": 1}),
        ("move_delivery", {"date": "2024-06-02"}, {"delivery_date": "2024-06-05"}),
        ("assign_ticket", {"assignee": "kim"}, {"ticket": "T1", "assignee": None}),
        ("scale", {"replicas": 4}, {"replicas": 4, "status": {"replicas": 1}}),
        ("move_files", {"count": 40}, {"moved": 33}),
        ("delete_rows", {"ids": [1, 2, 3]}, {"deleted_count": 2}),
        ("invite_users", {"emails": ["a@x.y", "b@x.y"]}, {"invited": ["a@x.y"]}),
        ("translate_file", {"to": "fi"}, {"segments": 120, "translated": 74}),
        ("move_files", {}, {"moved": 33, "left": 7}),
    ],
)
def test_a_record_with_another_value_or_fewer_things_than_asked_for_is_not_done(
    tool: str, asked: dict[str, Any], answer: object
):
    assert called_as_action(tool, answer, asked) == "unconfirmed"


@pytest.mark.parametrize(
    ("tool", "asked", "answer"),
    [
        ("set_temperature", {"room": "den", "celsius": 18}, {"target": 18.0}),
        ("update_user", {"role": "viewer"}, {"user": {"id": 7, "role": "VIEWER"}}),
        ("refund", {"amount": 4900}, {"id": "re_1", "amount": "49.00"}),
        ("update_profile", {"phone": "+1 555 0100"}, {"phone": "+15550100"}),
        ("schedule_post", {"at": "2024-05-03T08:00Z"}, {"date": "2024-05-03"}),
        ("move_files", {"count": 40}, {"moved": 40, "left": 0}),
        ("revoke_key", {"key": "K1"}, {"key": "K1", "active": False}),
        ("create_ticket", {"title": "a"}, {"number": 4, "state": "open"}),
        (
            "start_vacuum",
            {"zone": "hall"},
            "<r><zone>hall</zone><state>CLEANING</state></r>",
        ),
        ("actualizar_precios", {"articulos": 75}, {"actualizados": 75}),
    ],
)
def test_a_record_confirms_what_was_asked_for_in_whatever_form(
    tool: str, asked: dict[str, Any], answer: object
):
    assert called_as_action(tool, answer, asked) == "done"


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("create_invoice", {"invoice_number": None, "hint": "VAT"}),
        ("order_groceries", {"basket_id": "b1", "next": "checkout"}),
        ("buy_ticket", {"id": 4, "payment_url": "https://x"}),
        ("set_light", {"room": "den", "ack": False}),
        ("book_room", {"room": "R1", "available": False}),
        ("revoke_key", {"key": "K1", "active": True}),
        ("sign_contract", {"signers": [{"signed": True}, {"signed": False}]}),
        ("create_event", {"id": "p2", "status": "tentative"}),
        ("delete_user", {"id": 9}),
    ],
)
def test_a_record_without_its_main_value_or_with_a_next_step_is_not_done(
    tool: str, answer: object
):
    assert called_as_action(tool, answer, {}) == "unconfirmed"


@pytest.mark.parametrize(
    ("tool", "answer", "expected"),
    [
        ("delete_row", "UPDATE 3", "done"),
        ("delete_row", "UPDATE 0", "unconfirmed"),
        ("drop_table", "DROP TABLE", "done"),
        ("update_record", "HTTP 204", "done"),
        ("update_record", "HTTP 409: record was modified", "failed"),
        ("git_push", "   a81c33f..09bd1e2  fix -> fix", "done"),
        ("git_push", "Everything up-to-date", "unconfirmed"),
        ("git_push", "! [rejected] main -> main (fetch first)", "failed"),
        ("tag_images", "64/64", "done"),
        ("tag_images", "388/410", "unconfirmed"),
        ("deploy", "4 out of 6 replicas are updated", "unconfirmed"),
        ("scale_web", "deployment.apps/web scaled", "done"),
    ],
)
def test_the_conventions_of_common_services_are_known(
    tool: str, answer: str, expected: str
):
    assert called_as_action(tool, answer, {}) == expected


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("import_rows", "1st attempt timed out, 2nd attempt: 12 of 12 rows imported."),
        ("reset_password", "Password was reset; an earlier attempt had failed."),
        ("grade", "All 27 graded, including two that could not be opened yesterday."),
    ],
)
def test_what_failed_before_says_nothing_of_the_end(tool: str, answer: str):
    assert called_as_action(tool, answer, {}) == "done"


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("send_email", "Saved to drafts. Sending requires approval."),
        ("unsubscribe", "We've sent a link to you. Click it to be taken off the list."),
        ("book_hotel", "Thanks! The host has 24 hours to answer."),
        ("cancel_order", "Before we let you go: how about two months free?"),
        ("submit_claim", "We'd love to help, but need the report number first."),
        ("reset_settings", "Settings will reset at the next start."),
        ("install_update", "Update downloaded. It will be installed tonight."),
        ("assign_shift", "Meg is over her weekly hours, so Sunday stays open."),
        ("reservar_hotel", "Opción guardada, sin pago será anulada mañana."),
        ("reserver_train", "Votre demande de réservation a été transmise."),
        ("bestellen", "Der Kauf wird erst mit der Bezahlung abgeschlossen."),
        ("заказать", "Товар зарезервирован, заказ будет создан после оплаты."),
        ("提交报销", "已进入审批流程，待财务复核"),
        ("delete_file", "Hmm."),
    ],
)
def test_words_that_promise_ask_or_mean_something_else_confirm_nothing(
    tool: str, answer: str
):
    assert called_as_action(tool, answer, {}) in ("unconfirmed", "failed")


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("delete_file", "removed 'a.csv'"),
        ("unsubscribe_contact", "Ann will no longer get any mail from this list."),
        ("block_user", "Bob can't message you any more."),
        ("disable_alarm", "Alarm off."),
        ("trim_video", "Saved as clip.mp4, 00:31 long."),
        ("create_repo", "https://git.example.com/me/app"),
        ("renew_prescription", "Your request went through."),
        ("place_trade", "FILLED 10 VWRL @ 98.44"),
        ("cancel_order", "Order W2 is cancelled. Sorry to see you go."),
        ("reserver_train", "Votre voyage est réservé, dossier RTPLQX."),
        ("cancelar_cita", "La cita ha quedado anulada."),
        ("fazer_pix", "Pix enviado! ID E182"),
        ("prenota_tavolo", "Tavolo per 4 prenotato a nome Rossi."),
        ("отправить_смс", "Доставлено в 18:42"),
        ("取消订单", "订单W1已取消，退款将在3天内到账。"),
        ("予約登録", "ご予約を承りました。ご来店をお待ちしております。"),
        ("주문취소", "주문이 정상적으로 취소되었습니다."),
    ],
)
def test_words_confirm_by_the_tools_own_verb_or_a_related_one(tool: str, answer: str):
    assert called_as_action(tool, answer, {}) == "done"


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("cancel_order", "Order cancelled. The fee cannot be refunded."),
        ("cancel_order", "Cancelled. Reply STOP to get no more mail."),
        ("pay_bill", "Card declined twice, but the third attempt went through."),
        ("deploy", "Deployed without a hitch, no action needed."),
    ],
)
def test_a_denial_of_something_else_leaves_an_action_done(tool: str, answer: str):
    assert called_as_action(tool, answer, {}) == "done"


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("send_email", "Sent. 2 of the addresses bounced."),
        ("import_rows", "Imported, then ran out of quota."),
        ("reset_password", "We sent a reset link. Click it to go on."),
    ],
)
def test_a_denial_of_a_part_leaves_an_action_unconfirmed(tool: str, answer: str):
    assert called_as_action(tool, answer, {}) == "unconfirmed"


@pytest.mark.parametrize(
    ("tool", "asked", "answer"),
    [
        ("cancel_order", {"order_id": "O-1"}, "Order O-1 has been shipped."),
        ("cancel_order", {"order_id": "O-1"}, "O-1 was delivered on 3 March."),
        ("cancel_order", {"order_id": "O-1"}, {"id": "O-1", "status": "processed"}),
        ("cancel_booking", {"id": "B7"}, {"id": "B7", "state": "CONFIRMED"}),
        ("return_order", {"id": "O-1"}, {"id": "O-1", "status": "delivered"}),
        ("reserve_seat", {"seat": "12A"}, "12A has been given to another passenger."),
        ("reserve_seat", {"seat": "12A"}, "12A is now taken."),
        ("book_table", {"time": "20:00"}, "You are now number 3 in line."),
        ("set_temperature", {"degrees": 21}, "The room is now at 18 degrees."),
        ("remove_label", {"label": "bug"}, "Labels are now: bug, ui"),
        ("lock_door", {"door": "front"}, "front is open"),
        ("refund", {"payment": "P1"}, "P1 was charged back by the bank in June."),
        ("upload_file", {"path": "x"}, {"uploaded_bytes": 0, "quota": {"used": 15}}),
        ("buy_ticket", {"show": "S3", "seats": 2}, {"show": "S3", "sold_out": True}),
        ("rename", {"device": "d1", "name": "Hall"}, {"device": "d1", "name": "Den"}),
    ],
)
def test_what_else_happened_to_a_thing_is_not_the_action(
    tool: str, asked: dict[str, Any], answer: object
):
    assert called_as_action(tool, answer, asked) != "done"


@pytest.mark.parametrize(
    ("tool", "asked", "answer"),
    [
        ("publish", {"id": "9"}, {"id": "9", "visibility": "private", "words": 812}),
        ("assign_role", {"user": "bo", "role": "admin"}, {"roles": ["viewer"]}),
        ("book_hotel", {"hotel": "H2"}, {"hotel": "H2", "rooms": 0, "city": "Bonn"}),
        ("send_payment", {"iban": "DE12"}, {"account": {"iban": "DE99", "limit": 0}}),
    ],
)
def test_a_record_in_which_nothing_is_new_is_not_the_changed_one(
    tool: str, asked: dict[str, Any], answer: dict[str, Any]
):
    others = {"name": "Ada", "city": "Bonn", "plan": "free", "since": "2020"}
    assert called_as_action(tool, answer | others, asked) == "unconfirmed"


@pytest.mark.parametrize(
    ("tool", "asked", "answer"),
    [
        ("pay_bill", {"bill": "B1"}, "Payment of 65.0 USD has been made for bill B1."),
        (
            "edit_file",
            {},
            "a.py has been edited:\n   1\traise Failed('error: invalid')",
        ),
        ("set_temperature", {"degrees": 21}, "The room is now at 21 degrees."),
        ("change_plan", {"plan": "pro"}, "You are now on plan pro."),
        ("toggle_roaming", {}, "Data roaming is now ON."),
        ("set_priority", {"priority": "high"}, "T3: priority high"),
        ("assign_task", {"task": "K1", "to": "Ana"}, "Ana has K1 now."),
        ("schedule_meeting", {"time": "15:00"}, "Meeting created for 15:00."),
        ("charge_card", {"card": "4242"}, "Approved. Authorisation code 88123."),
        ("close_issue", {"id": "P-4"}, {"fields": {"status": {"name": "Closed"}}}),
        ("delete_rows", {"table": "t"}, {"rowCount": 3}),
        ("rename", {"device": "d1", "name": "Hall"}, {"device": "d1", "name": "Hall"}),
        ("book_hotel", {"hotel": "H2"}, {"booking": 71, "hotel": "H2", "city": "Bonn"}),
    ],
)
def test_a_new_state_an_own_verb_or_a_new_number_confirms_an_action(
    tool: str, asked: dict[str, Any], answer: object
):
    assert called_as_action(tool, answer, asked) == "done"


@pytest.mark.parametrize(
    "answer", ["[" * 900 + "]" * 900, '{"a":' * 300 + "1" + "}" * 300]
)
def test_deep_results_of_actions_are_judged_without_an_error(answer: str):
    assert called_as_action("delete_row", answer, {"id": 4}) == "unconfirmed"


def test_a_denied_value_is_shown_with_its_field_and_as_a_fact_of_its_own():
    answer = {"success": True, "customer": {"id": 5, "city": "York"}}
    found = called("update_address", answer, customer=5, city="Bath")
    assert found.words == "customer.city: York, success: true"
    assert found.reasons[0] == ("customer.city", "York")


def test_a_record_that_gives_one_name_two_values_says_neither():
    twice = '{"success": false, "success": true, "order_id": "W2"}'
    assert called("cancel_order", twice, order_id="W2").status == "unconfirmed"
    state = '{"order_id": "W2", "status": "paid", "status": "open"}'
    found = called("get_order", state, order_id="W2")
    assert (found.record, found.words) == (None, state)


@pytest.mark.parametrize(
    "answer",
    [
        '{"order_id": "W2", "success": false, "items": [{"a": 1}, {"a"',
        '{"order_id": "W2", "status": "cancelled", "log": "' + "z " * 1_100_000 + '"}',
        "{'order_id': 'W2', 'status': 'cancelled', 'at': datetime(2026, 1, 1)}",
        "{'path': 'C:\\d', 'status': 'cancelled'}",
        "[" * 5_000 + '"cancelled"',
        "{'a': " * 1_000 + "'cancelled'" + "}" * 1_000,
    ],
)
def test_a_record_that_cannot_be_read_confirms_nothing(answer: str):
    assert called("cancel_order", answer, order_id="W2").status == "unconfirmed"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("{'order_id': 'W2', 'success': False}", "failed"),
        ("{'order_id': 'W2', 'status': 'cancelled', 'fee': None}", "done"),
    ],
)
def test_a_record_that_python_has_printed_is_read(answer: str, found: str):
    assert called("cancel_order", answer, order_id="W2").status == found
