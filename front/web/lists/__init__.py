"""Lists that may be long: which rows somebody asks for, in which order, and no more of them shown than a page holds.

listing.py is what paths call; paging.py reads what is asked for, with name_filter.py for names; sorting.py has the order of any
list, queue_order.py that of queues, which is kept from one request to the next.
"""
